// SPDX-License-Identifier: Apache-2.0
#include "convert/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/random.h"
#include "formats/cast.h"

namespace hearth::convert {
namespace {

// The caches of a core hold a few portions: larger ones go through memory at each of the passes over them.
constexpr int64_t kPortionBytes = int64_t{1} << 20;
constexpr size_t kPortionsAhead = 8;

struct Portion {
  mesh::Box box;
  std::vector<std::byte> bytes;  // in the target's type
};

// Reads portions of a part of a tensor, checks them and gives them the target's type.
class PortionReader {
 public:
  PortionReader(checkpoint::Reader& reader, const Transfer& tensor, const mesh::Box& part)
      : reader_(reader),
        tensor_(tensor),
        part_(part),
        from_(tensor.drawn ? DType::kFloat32 : reader.find(tensor.from)->dtype),
        has_rows_(!part.sizes.empty()),
        rows_(has_rows_ ? part.sizes[0] : 1) {
    const int64_t row_numel = part.numel() / std::max<int64_t>(rows_, 1);
    step_ = std::max<int64_t>(1, kPortionBytes / std::max<int64_t>(1, row_numel * dtype_size(from_)));
  }
  int64_t count() const { return (rows_ + step_ - 1) / step_; }

  void read(int64_t index, Portion& portion) {
    portion.box = part_;
    if (has_rows_) {
      portion.box.offsets[0] = part_.offsets[0] + index * step_;
      portion.box.sizes[0] = std::min(step_, rows_ - index * step_);
    }
    const DType to = tensor_.to.dtype;
    std::vector<std::byte>& stored = from_ == to ? portion.bytes : stored_;
    stored.resize(static_cast<size_t>(portion.box.numel() * dtype_size(from_)));
    tensor_.drawn ? draw(portion.box, stored) : reader_.read(tensor_.from, portion.box, stored);
    if (formats::has_nonfinite(stored, from_))
      throw user_error(
          fmt::format("{}: {} has an element that is NaN or infinite", reader_.folder().string(), tensor_.from),
          "a model with it computes nothing useful", "take another checkpoint");
    if (from_ == to) return;
    formats::cast(stored, from_, to, portion.bytes);
    if (formats::has_nonfinite(portion.bytes, to))
      throw user_error(fmt::format("{}: {} has an element that {} cannot represent", reader_.folder().string(),
                                   tensor_.from, dtype_name(to)),
                       "it would become infinite", "give --dtype bfloat16 or float32");
  }

 private:
  // Whole rows of a matrix.
  void draw(const mesh::Box& box, std::span<std::byte> bytes) const {
    const RandomKey key = random_key(0, "init:" + tensor_.to.name);
    const double bound = tensor_.drawn->bound > 0 ? tensor_.drawn->bound : std::numeric_limits<double>::infinity();
    const auto first = static_cast<uint64_t>(box.offsets[0] * tensor_.to.shape[1]);
    for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
      const auto value = static_cast<float>(random_truncated_normal(key, first + i, tensor_.drawn->std, bound));
      std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof value);
    }
  }

  checkpoint::Reader& reader_;
  const Transfer& tensor_;
  const mesh::Box& part_;
  const DType from_;
  const bool has_rows_;
  const int64_t rows_;
  int64_t step_;
  std::vector<std::byte> stored_;
};

// Reads on a thread of its own, up to kPortionsAhead portions before the one that is written.
class ReadAhead {
 public:
  explicit ReadAhead(PortionReader& reader) : reader_(reader), thread_([this] { run(); }) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // The portion after the one that was taken last, which is overwritten from now on. Throws what reading threw.
  const Portion& next() {
    std::unique_lock lock(mutex_);
    done_ = taken_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return read_ > taken_ || error_; });
    if (read_ == taken_) std::rethrow_exception(error_);
    return ring_[static_cast<size_t>(taken_++) % kPortionsAhead];
  }

 private:
  void run() {
    try {
      for (int64_t i = 0; i < reader_.count(); ++i) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return stopped_ || i - done_ < static_cast<int64_t>(kPortionsAhead); });
          if (stopped_) return;
        }
        reader_.read(i, ring_[static_cast<size_t>(i) % kPortionsAhead]);
        const std::lock_guard lock(mutex_);
        read_ = i + 1;
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  PortionReader& reader_;
  std::array<Portion, kPortionsAhead> ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t read_ = 0, taken_ = 0, done_ = 0;  // portions
  bool stopped_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

int64_t bytes_of(const mesh::TensorInfo& info) { return mesh::Box{{}, info.shape}.numel() * dtype_size(info.dtype); }

void transfer(checkpoint::Reader& reader, const Transfer& tensor, ConvertProgress& progress,
              const std::function<void(const mesh::Box& box, std::span<const std::byte> bytes)>& write) {
  const mesh::Box whole{std::vector<int64_t>(tensor.to.shape.size()), tensor.to.shape};
  transfer(reader, tensor, whole, progress, write);
}

void transfer(checkpoint::Reader& reader, const Transfer& tensor, const mesh::Box& part, ConvertProgress& progress,
              const std::function<void(const mesh::Box& box, std::span<const std::byte> bytes)>& write) {
  PortionReader portions(reader, tensor, part);
  const auto give = [&](const Portion& portion) {
    write(portion.box, portion.bytes);
    progress.done_bytes += static_cast<int64_t>(portion.bytes.size());
  };
  if (portions.count() <= 1) {
    Portion portion;
    if (portions.count() == 1) portions.read(0, portion), give(portion);
    return;
  }
  ReadAhead ahead(portions);
  for (int64_t i = 0; i < portions.count(); ++i) give(ahead.next());
}

}  // namespace hearth::convert
