// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/program.h"
#include "base/quantity.h"
#include "base/shared_object.h"
#include "comm/buffers.h"
#include "comm/mpi_library.h"
#include "comm/notes/notes.h"

namespace hearth::comm {

namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;  // that a rank sends at a time to be added
constexpr int64_t kSmallBytes = 4096;              // below it, every rank adds everything
constexpr int kSpins = 2000;                       // tests of a call, before a rank sleeps between them
constexpr auto kSleep = std::chrono::microseconds(50);

MpiLibrary* library_in_use = nullptr;
std::mutex library_mutex;  // guards the library: two streams may use it

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Call>
auto locked(const Call& call) {
  const std::lock_guard lock(library_mutex);
  return call();
}

// Shared by a group and all groups split from it.
struct Common {
  MpiLibrary& library;
  Control& control;
  const MpiOptions options;
  std::atomic<bool> abandoned = false;
  Stream stream{[this] { abandoned = true; }};
};

class MpiGroup final : public Group {
 public:
  MpiGroup(std::shared_ptr<Common> common, MpiRanks& ranks, int64_t rank, int64_t size)
      : common_(std::move(common)), ranks_(ranks), rank_(rank), size_(size) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  Control& control() override { return common_->control; }
  Stream& stream() override { return common_->stream; }

 protected:
  std::unique_ptr<Group> split(const std::vector<int64_t>& members, StreamOf stream) override {
    const auto place = std::find(members.begin(), members.end(), rank_);
    HEARTH_CHECK(place != members.end(), "rank {} is not in its group", rank_);
    MpiRanks* const part = [&] {
      const auto watched = common_->options.watch("MPI_Comm_split");
      return locked([&] { return ranks_.split(members.front()); });
    }();
    HEARTH_CHECK(part != nullptr, "MPI does not split the ranks");
    if (members.size() == 1) return single(control(), this->stream());
    const auto common = stream == StreamOf::kAll
                            ? common_
                            : std::make_shared<Common>(common_->library, common_->control, common_->options);
    return std::make_unique<MpiGroup>(common, *part, place - members.begin(), std::ssize(members));
  }

  void all_gather_now(at::Tensor full, const at::Tensor& shard) override {
    const TensorMemory to = host_buffer_of(full, "all_gather"), from = host_buffer_of(shard, "all_gather");
    check_shard(to, from, rank_, size_, "all_gather");
    if (from.numel > 0) gather(to.data, to.at(rank_ * from.numel) == from.data ? nullptr : from.data, from);
  }

  void reduce_scatter_now(at::Tensor shard, const at::Tensor& full) override {
    const TensorMemory to = host_buffer_of(shard, "reduce_scatter"), from = host_buffer_of(full, "reduce_scatter");
    check_shard(from, to, rank_, size_, "reduce_scatter");
    check_summable(from, "reduce_scatter");
    const int64_t n = to.numel, most = std::max<int64_t>(1, kPieceBytes / from.element_bytes / size_);
    for (int64_t begin = 0; begin < n; begin += most) {
      const int64_t count = std::min(most, n - begin), bytes = count * from.element_bytes;
      sent_.resize(static_cast<size_t>(size_ * bytes));
      for (int64_t r = 0; r < size_; ++r) copy_elements(sent_.data() + r * bytes, from.at(r * n + begin), bytes);
      add_parts(to.at(begin), count, from);
    }
  }

  // Each rank adds one part, and all gather the parts.
  void all_reduce_now(at::Tensor values) override {
    const TensorMemory all = host_buffer_of(values, "all_reduce");
    check_summable(all, "all_reduce");
    if (all.numel * all.element_bytes <= kSmallBytes) return add_small(all);
    const int64_t most = kPieceBytes / all.element_bytes;
    for (int64_t begin = 0; begin < all.numel; begin += most) {
      const int64_t count = std::min(most, all.numel - begin), part = div_ceil(count, size_);
      sent_.assign(static_cast<size_t>(size_ * part * all.element_bytes), std::byte{});
      copy_elements(sent_.data(), all.at(begin), count * all.element_bytes);
      sum_.resize(static_cast<size_t>(part * all.element_bytes));
      add_parts(sum_.data(), part, all);
      gather(sent_.data(), sum_.data(), {sum_.data(), part, all.type, all.element_bytes});
      copy_elements(all.at(begin), sent_.data(), count * all.element_bytes);
    }
  }

  void all_to_all_now(at::Tensor to, const at::Tensor& from, const ExchangeCounts& counts) override {
    const TensorMemory out = host_buffer_of(to, "all_to_all"), in = host_buffer_of(from, "all_to_all");
    const Exchange parts = exchange_of(out, in, counts.to, counts.from, size_);
    if (counts.from.empty()) {
      if (in.numel > 0) exchange(out.data, in.data, in.numel / size_, in.element_bytes);
      return;
    }
    const MpiParts received = mpi_parts(parts.to), sent = mpi_parts(parts.from);
    finish("all_to_all", in.numel, locked([&] {
             return ranks_.start_all_to_all_of_any(out.data, received.counts.data(), received.begins.data(), in.data,
                                                   sent.counts.data(), sent.begins.data(), in.element_bytes);
           }));
  }

  void send_now(const at::Tensor& values, int64_t to) override {
    const TensorMemory from = host_buffer_of(values, "send");
    finish("send", from.numel,
           locked([&] { return ranks_.start_send(from.data, from.numel, from.element_bytes, to); }));
  }
  void recv_now(at::Tensor values, int64_t from) override {
    const TensorMemory to = host_buffer_of(values, "recv");
    finish("recv", to.numel, locked([&] { return ranks_.start_recv(to.data, to.numel, to.element_bytes, from); }));
  }

 private:
  // MPI counts with int.
  struct MpiParts {
    std::vector<int> counts, begins;
  };
  static MpiParts mpi_parts(const ExchangeParts& parts) {
    MpiParts found;
    for (size_t r = 0; r < parts.counts.size(); ++r) {
      HEARTH_CHECK(parts.begins[r] + parts.counts[r] <= std::numeric_limits<int>::max(), "all_to_all: {} elements",
                   parts.begins[r] + parts.counts[r]);
      found.counts.push_back(static_cast<int>(parts.counts[r]));
      found.begins.push_back(static_cast<int>(parts.begins[r]));
    }
    return found;
  }

  // Sends part r of sent_ to rank r, and adds what arrives.
  void add_parts(std::byte* out, int64_t count, const TensorMemory& like) {
    received_.resize(sent_.size());
    exchange(received_.data(), sent_.data(), count, like.element_bytes);
    add(out, count, like);
  }
  void add_small(const TensorMemory& all) {
    if (all.numel == 0) return;
    received_.resize(static_cast<size_t>(size_ * all.numel * all.element_bytes));
    gather(received_.data(), all.data, all);
    add(all.data, all.numel, all);
  }
  void add(std::byte* out, int64_t count, const TensorMemory& like) {
    std::vector<const std::byte*> inputs;
    for (int64_t r = 0; r < size_; ++r) inputs.push_back(received_.data() + r * count * like.element_bytes);
    sum_elements(out, inputs.data(), size_, 0, count, like.type);
  }

  void gather(std::byte* to, const std::byte* from, const TensorMemory& shard) {
    finish("all_gather", shard.numel,
           locked([&] { return ranks_.start_all_gather(to, from, shard.numel, shard.element_bytes); }));
  }
  void exchange(std::byte* to, const std::byte* from, int64_t count, int64_t element_bytes) {
    finish("all_to_all", count, locked([&] { return ranks_.start_all_to_all(to, from, count, element_bytes); }));
  }

  // Waits for the call that was started.
  void finish(const char* operation, int64_t count, int error) {
    const double begin_s = seconds_now();
    bool done = false;
    for (int64_t tests = 0; error == 0 && !done; ++tests) {
      error = locked([&] { return ranks_.test(done); });
      if (done || tests < kSpins) continue;
      if (common_->abandoned) throw Aborted{};
      if (seconds_now() - std::max(begin_s, common_->options.sign_s()) > common_->options.timeout_s())
        common_->options.hang(
            Error(ExitCode::kHardware,
                  fmt::format("rank {} waited {} in {} of {} elements a rank through MPI", control().rank(),
                              format_duration(seconds_now() - begin_s), operation, count),
                  "another rank did not make the call, or the network does not deliver",
                  fmt::format("see the other ranks' logs; {}", kLimitOfCalls)));
      std::this_thread::sleep_for(kSleep);
    }
    if (error != 0)
      throw Error(ExitCode::kHardware, fmt::format("MPI: {} fails: {}", operation, common_->library.text_of(error)),
                  common_->library.name(), "see the messages of MPI's launcher");
  }

  std::shared_ptr<Common> common_;
  MpiRanks& ranks_;
  const int64_t rank_, size_;
  std::vector<std::byte> sent_, received_, sum_;
};

MpiLibrary& load(const Path& object) {
  const Path path = object.empty() ? own_program().parent_path() / kMpiObject : object;
  const auto open = reinterpret_cast<OpenMpiLibrary>(load_entry(
      path, HEARTH_ENTRY_NAME(HEARTH_MPI_ENTRY), "tensors of several hosts, or of comm.backend = \"mpi\", need MPI",
      "build Hearth where mpicxx is installed (-DHEARTH_MPICXX=PATH names another one); or start all ranks on one "
      "host, without comm.backend"));
  return *open();
}

}  // namespace

std::unique_ptr<Group> mpi_group(Control& control, const MpiOptions& options) {
  control.together("MPI's library", [&] { library_in_use = &load(options.object); });
  MpiLibrary& library = *library_in_use;
  control.together("MPI's ranks", [&] {
    const auto watched = options.watch("MPI_Init");
    if (const char* error = library.begin(); error != nullptr)
      throw Error(ExitCode::kHardware, fmt::format("MPI does not begin: {}", error), library.name(),
                  "see the messages of MPI's launcher");
    if (library.size() != control.size() || library.rank() != control.rank())
      throw user_error(fmt::format("this is rank {} of {}, but rank {} of {} for MPI", control.rank(), control.size(),
                                   library.rank(), library.size()),
                       fmt::format("{}: another library's launcher started the ranks", library.name()),
                       "start them with this library's mpirun; under Slurm, with srun --mpi=pmix (Open MPI) or "
                       "--mpi=pmi2 (MPICH)");
  });
  return std::make_unique<MpiGroup>(std::make_shared<Common>(library, control, options), library.all(), library.rank(),
                                    library.size());
}

void end_mpi(const std::function<std::shared_ptr<void>(std::string_view call)>& watch) {
  if (library_in_use == nullptr) return;
  const auto watched = watch("MPI_Finalize");
  library_in_use->end();
}

}  // namespace hearth::comm
