// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "formats/item.h"

namespace hearth::formats {
namespace {

// Small reads are served from a buffered range of the file; large ones go straight to their target.
class BufferedFile {
 public:
  BufferedFile(const File& file, const ReadBytes& seen) : file_(file), seen_(seen), file_size_(file.size_bytes()) {}

  void read(int64_t at, std::span<std::byte> out) {
    const int64_t count = static_cast<int64_t>(out.size());
    if (count >= kWindow / 4) return read_now(at, out);
    if (at < begin_ || at + count > begin_ + static_cast<int64_t>(window_.size())) {
      begin_ = at;
      window_.resize(static_cast<size_t>(std::max(std::min(kWindow, file_size_ - at), count)));
      read_now(begin_, window_);
    }
    std::memcpy(out.data(), window_.data() + (at - begin_), out.size());
  }

 private:
  void read_now(int64_t at, std::span<std::byte> out) {
    file_.read_at(at, out);
    if (seen_) seen_(at, out);
  }

  static constexpr int64_t kWindow = 1 << 20;
  const File& file_;
  const ReadBytes& seen_;
  int64_t file_size_;
  int64_t begin_ = 0;
  std::vector<std::byte> window_;
};

// One dimension of the overlap: its size, and the strides of source (file) and target (memory), in elements.
struct Loop {
  int64_t size, from_stride, to_stride;
};

}  // namespace

int64_t copy_box(const File& file, const TensorLayout& layout, const mesh::Box& stored, const mesh::Box& wanted,
                 std::span<std::byte> out, const ReadBytes& seen) {
  const size_t dims = wanted.sizes.size();
  HEARTH_CHECK(stored.sizes == layout.sizes && stored.offsets.size() == dims && wanted.offsets.size() == dims);
  int64_t from = 0, to = 0, total = 1, to_stride = 1;
  std::vector<Loop> loops(dims);
  for (size_t d = dims; d-- > 0;) {
    const int64_t begin = std::max(stored.offsets[d], wanted.offsets[d]);
    const int64_t end = std::min(stored.offsets[d] + stored.sizes[d], wanted.offsets[d] + wanted.sizes[d]);
    if (begin >= end) return 0;
    loops[d] = {end - begin, layout.strides[d], to_stride};
    from += (begin - stored.offsets[d]) * layout.strides[d];
    to += (begin - wanted.offsets[d]) * to_stride;
    total *= end - begin;
    to_stride *= wanted.sizes[d];
  }
  // Joins the innermost dimensions that are contiguous on both sides.
  int64_t run = 1;
  while (!loops.empty()) {
    const Loop& inner = loops.back();
    if (inner.size != 1 && (inner.from_stride != run || inner.to_stride != run)) break;
    run *= inner.size;
    loops.pop_back();
  }
  // In the order of the file, as far as strides tell: a transposed matrix would else be read once for each of its rows.
  std::stable_sort(loops.begin(), loops.end(),
                   [](const Loop& a, const Loop& b) { return a.from_stride > b.from_stride; });

  BufferedFile source(file, seen);
  const int64_t element = dtype_size(layout.dtype);
  std::vector<int64_t> index(loops.size(), 0);
  while (true) {
    source.read(layout.data_offset + from * element,
                out.subspan(static_cast<size_t>(to * element), static_cast<size_t>(run * element)));
    size_t d = loops.size();
    while (d > 0) {
      --d;
      from += loops[d].from_stride;
      to += loops[d].to_stride;
      if (++index[d] < loops[d].size) break;
      from -= loops[d].from_stride * loops[d].size;
      to -= loops[d].to_stride * loops[d].size;
      index[d] = 0;
      if (d == 0) return total;
    }
    if (loops.empty()) return total;
  }
}

}  // namespace hearth::formats
