// SPDX-License-Identifier: Apache-2.0
#include "comm/host_group.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/buffers.h"
#include "comm/notes/frames.h"
#include "comm/shared_pages.h"

namespace hearth::comm {

namespace {

// Shared by a group and all groups split from it.
struct Common {
  // For clang 14, which clang-tidy is of: its std::make_shared makes no aggregate.
  Common(Control& ranks, Limit most, std::function<void(const Error&)> on_hang)
      : control(ranks), limit(most), hang(std::move(on_hang)) {}

  Control& control;
  const Limit limit;
  const std::function<void(const Error&)> hang;
  std::atomic<bool> abandoned = false;
  Stream stream{[this] { abandoned = true; }};
};

// One segment of memory holds the parts of all new groups, one after the other.
struct Segment {
  std::unique_ptr<SharedPages> pages;
  std::byte* place;  // of this rank's group
};

// `ranks`: of this rank's new group, numbered among all ranks. Collective over all ranks.
Segment share_segment(Control& control, const std::vector<int64_t>& ranks) {
  const std::string mine(reinterpret_cast<const char*>(ranks.data()), ranks.size() * sizeof(int64_t));
  const bool first = ranks.front() == control.rank();  // it speaks for its group
  std::map<std::string, int64_t> offsets;              // of each list of ranks
  int64_t bytes = 0;
  for (const std::string& list :
       parts_of(control.reduce("the ranks of a group", first ? parts_as_bytes(mine) : std::string(), merge_lists))) {
    offsets.emplace(list, bytes);
    bytes += HostMemory::bytes_for(static_cast<int64_t>(list.size() / sizeof(int64_t)));
  }
  std::unique_ptr<SharedPages> pages = share_pages(control, static_cast<size_t>(bytes));
  std::byte* const place = pages->data() + offsets.at(mine);
  return {std::move(pages), place};
}

class HostGroup final : public Group {
 public:
  // The group of all ranks.
  HostGroup(HostMemory& memory, Control& control, Limit limit, std::function<void(const Error&)> hang)
      : common_(std::make_shared<Common>(control, std::move(limit), std::move(hang))),
        rank_(control.rank()),
        memory_(&memory) {}
  // A group of some of them; `place` is its part of `pages`.
  HostGroup(std::shared_ptr<Common> common, std::unique_ptr<SharedPages> pages, std::byte* place,
            const std::vector<int64_t>& members, int64_t rank, HostMemory& of)
      : common_(std::move(common)), rank_(rank), pages_(std::move(pages)) {
    own_memory_.emplace(place, members, of);
    memory_ = &*own_memory_;
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return memory_->ranks(); }
  Control& control() override { return common_->control; }
  Stream& stream() override { return common_->stream; }

 protected:
  std::unique_ptr<Group> split(const std::vector<int64_t>& members, StreamOf stream) override;

  void all_gather_now(at::Tensor full, const at::Tensor& shard) override {
    const TensorMemory to = host_buffer_of(full, "all_gather"), from = host_buffer_of(shard, "all_gather");
    check_shard(to, from, rank(), size(), "all_gather");
    const int64_t n = from.numel, most = HostMemory::kPlaceBytes / from.element_bytes;
    in_pieces("all_gather", from, n, most, [&](int64_t begin, int64_t count) {
      const int64_t bytes = count * from.element_bytes;
      copy_elements(mine(), from.at(begin), bytes);
      arrive();
      for (int64_t r = 0; r < size(); ++r)
        if (r != rank() || to.at(r * n) != from.data) copy_elements(to.at(r * n + begin), of(r), bytes);
    });
  }

  void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) override {
    const TensorMemory to = host_buffer_of(shard, "reduce_scatter"), from = host_buffer_of(full, "reduce_scatter");
    check_shard(from, to, rank(), size(), "reduce_scatter");
    check_summable(from, "reduce_scatter");
    const int64_t n = to.numel, most = HostMemory::kPlaceBytes / from.element_bytes / size();
    in_pieces("reduce_scatter", from, n, most, [&](int64_t begin, int64_t count) {
      write_parts(from, n, begin, count);
      arrive();
      std::vector<const std::byte*> inputs = everyones();
      for (const std::byte*& input : inputs) input += rank() * count * from.element_bytes;
      inputs[static_cast<size_t>(rank())] = from.at(rank() * n + begin);
      sum_elements(to.at(begin), inputs.data(), size(), 0, count, from.type);
    });
  }

  // Each rank sums one part, and all gather the parts.
  void all_reduce_now(at::Tensor values) override {
    const TensorMemory all = host_buffer_of(values, "all_reduce");
    check_summable(all, "all_reduce");
    const int64_t most = HostMemory::kPlaceBytes / all.element_bytes;
    in_pieces("all_reduce", all, all.numel, most, [&](int64_t begin, int64_t count) {
      copy_elements(mine(), all.at(begin), count * all.element_bytes);
      arrive();
      if (count * all.element_bytes <= kSmallBytes) return sum(all.at(begin), 0, count, all.type);
      const auto part = [&](int64_t r) { return count * r / size(); };
      const std::vector<const std::byte*> inputs = everyones();
      ++phase_;
      const int64_t first = part(rank()), last = part(rank() + 1);
      sum_elements(mine(), inputs.data(), size(), first, last, all.type);
      arrive();
      for (int64_t r = 0; r < size(); ++r)
        copy_elements(all.at(begin + part(r)), of(r), (part(r + 1) - part(r)) * all.element_bytes);
    });
  }

  void all_to_all_now(at::Tensor to, const at::Tensor& from, const ExchangeCounts& counts) override {
    const TensorMemory out = host_buffer_of(to, "all_to_all"), in = host_buffer_of(from, "all_to_all");
    const Exchange parts = exchange_of(out, in, counts.to, counts.from, size());
    const ExchangeParts &received = parts.to, &sent = parts.from;
    const int64_t longest = counts.from.empty() ? in.numel / size() : longest_part(received, sent);
    const int64_t most = HostMemory::kPlaceBytes / in.element_bytes / size();
    TensorMemory call = in;
    call.numel = longest * size();  // the same on all ranks
    in_pieces("all_to_all", call, longest, most, [&](int64_t begin, int64_t count) {
      // What a part of `of` elements has of this piece.
      const auto bytes = [&](int64_t of) { return std::clamp<int64_t>(of - begin, 0, count) * in.element_bytes; };
      const int64_t stride = count * in.element_bytes, skip = begin * in.element_bytes;
      for (int64_t r = 0; r < size(); ++r)
        if (r != rank()) copy_elements(mine() + r * stride, sent.at(in, r) + skip, bytes(sent.count(r)));
      arrive();
      for (int64_t r = 0; r < size(); ++r)
        copy_elements(received.at(out, r) + skip, r == rank() ? sent.at(in, r) + skip : of(r) + rank() * stride,
                      bytes(received.count(r)));
    });
  }

  void send_now(const at::Tensor& values, int64_t to) override {
    const TensorMemory from = host_buffer_of(values, "send");
    in_letters(from, [&](std::byte* part, int64_t bytes) {
      within_limit([&] {
        memory_->write_letter(rank_, ++letters_, to, call_, common_->limit, common_->abandoned,
                              [&](std::byte* place) { copy_elements(place, part, bytes); });
      });
    });
  }

  void recv_now(at::Tensor values, int64_t from) override {
    const TensorMemory to = host_buffer_of(values, "recv");
    in_letters(to, [&](std::byte* part, int64_t bytes) {
      within_limit([&] {
        memory_->read_letter(rank_, from, call_, common_->limit, common_->abandoned,
                             [&](const std::byte* place) { copy_elements(part, place, bytes); });
      });
    });
  }

 private:
  static constexpr int64_t kSmallBytes = 4096;  // below it one phase is faster than two

  // Calls body(begin, count) for pieces of [0, n) of at most `most` elements, each in a new phase; at least once, so
  // that ranks with different calls meet.
  void in_pieces(const char* operation, const TensorMemory& buffer, int64_t n, int64_t most,
                 const std::function<void(int64_t begin, int64_t count)>& body) {
    set_call(operation, buffer);
    int64_t begin = 0;
    do {
      const int64_t count = std::min(most, n - begin);
      ++phase_;
      body(begin, count);
      begin += count;
    } while (begin < n);
  }

  // Calls body(part, bytes) for pieces of a message.
  void in_letters(const TensorMemory& buffer, const std::function<void(std::byte* part, int64_t bytes)>& body) {
    set_call("transfer", buffer);
    const int64_t most = HostMemory::kPlaceBytes / buffer.element_bytes;
    for (int64_t begin = 0; begin < buffer.numel; begin += most)
      body(buffer.at(begin), std::min(most, buffer.numel - begin) * buffer.element_bytes);
  }

  void set_call(const char* operation, const TensorMemory& buffer) {
    call_ = {};
    std::strncpy(call_.operation, operation, sizeof call_.operation - 1);
    call_.type = buffer.type;
    call_.numel = buffer.numel;
  }

  void arrive() {
    within_limit([&] { memory_->arrive(rank(), phase_, call_, common_->limit, common_->abandoned); });
  }
  template <class Wait>
  void within_limit(const Wait& wait) const {
    try {
      wait();
    } catch (const Error& error) {
      if (error.code() == ExitCode::kHardware && common_->hang) common_->hang(error);
      throw;
    }
  }
  std::byte* mine() const { return memory_->place(rank(), phase_); }
  const std::byte* of(int64_t r) const { return memory_->place(r, phase_); }
  std::vector<const std::byte*> everyones() const {
    std::vector<const std::byte*> places;
    for (int64_t r = 0; r < size(); ++r) places.push_back(of(r));
    return places;
  }
  // The longest part that any rank sends another. Each rank sees all counts, and checks those of what it receives.
  int64_t longest_part(const ExchangeParts& received, const ExchangeParts& sent) {
    constexpr int64_t kBytes = sizeof(int64_t);
    const auto* counts = reinterpret_cast<const std::byte*>(sent.counts.data());
    HEARTH_CHECK(size() * kBytes <= HostMemory::kPlaceBytes, "{} ranks", size());
    int64_t longest = 0;
    in_pieces("all_to_all", {nullptr, size(), at::kLong, kBytes}, size(), size(), [&](int64_t, int64_t) {
      copy_elements(mine(), counts, size() * kBytes);
      arrive();
      for (int64_t r = 0; r < size(); ++r) {
        const std::span of_rank(reinterpret_cast<const int64_t*>(of(r)), static_cast<size_t>(size()));
        longest = std::max(longest, *std::max_element(of_rank.begin(), of_rank.end()));
        const int64_t comes = of_rank[static_cast<size_t>(rank())];
        HEARTH_CHECK(comes == received.count(r), "all_to_all: rank {} sends {} elements to rank {}, which awaits {}", r,
                     comes, rank(), received.count(r));
      }
    });
    return longest;
  }
  // Writes elements [begin, begin + count) of each other rank's part of `from` to this rank's place, in rank order.
  // This rank reads its own part where it is.
  void write_parts(const TensorMemory& from, int64_t n, int64_t begin, int64_t count) {
    const int64_t bytes = count * from.element_bytes;
    for (int64_t r = 0; r < size(); ++r)
      if (r != rank()) copy_elements(mine() + r * bytes, from.at(r * n + begin), bytes);
  }
  void sum(std::byte* out, int64_t begin, int64_t end, at::ScalarType type) const {
    sum_elements(out, everyones().data(), size(), begin, end, type);
  }

  std::shared_ptr<Common> common_;
  const int64_t rank_;
  std::unique_ptr<SharedPages> pages_;  // of a split
  std::optional<HostMemory> own_memory_;
  HostMemory* memory_;
  uint32_t phase_ = 0, letters_ = 0;
  SharedCall call_;
};

std::unique_ptr<Group> HostGroup::split(const std::vector<int64_t>& members, StreamOf stream) {
  const auto place = std::find(members.begin(), members.end(), rank_);
  HEARTH_CHECK(place != members.end(), "rank {} is not in its group", rank_);
  const std::vector<int64_t> ranks = memory_->among_all(members);
  Segment segment = share_segment(control(), ranks);
  if (members.size() == 1) {
    const auto before_split = [&control = control(), ranks] { share_segment(control, ranks); };
    return single(control(), this->stream(), before_split);
  }
  const auto common =
      stream == StreamOf::kAll ? common_ : std::make_shared<Common>(common_->control, common_->limit, common_->hang);
  return std::make_unique<HostGroup>(common, std::move(segment.pages), segment.place, members, place - members.begin(),
                                     *memory_);
}

}  // namespace

std::unique_ptr<Group> host_group(HostMemory& memory, Control& control, Limit limit,
                                  std::function<void(const Error&)> hang) {
  return std::make_unique<HostGroup>(memory, control, std::move(limit), std::move(hang));
}

}  // namespace hearth::comm
