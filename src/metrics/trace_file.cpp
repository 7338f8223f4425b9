// SPDX-License-Identifier: Apache-2.0
#include "metrics/trace_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hearth::metrics {
namespace {

constexpr int64_t kDayNs = int64_t{86400} * 1000000000;

std::string as_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string label_of(const trace::Span& span) {
  if (span.number < 0) return span.name;
  if (span.kind == trace::SpanKind::kLayer) return fmt::format("{}, layer {}", span.name, span.number);
  return fmt::format("{} {}", span.name, span.number);
}

}  // namespace

std::string trace_json(const trace::SpanRecorder::Window& window, const TraceFacts& facts) {
  const int64_t base_ns = window.begin_wall_ns - window.begin_wall_ns % kDayNs;
  const int64_t shift_ns = window.begin_wall_ns - base_ns - window.begin_ns;  // from the clock of spans to "ts"
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": {},\n", base_ns);
  fmt::format_to(out, "\"distributedInfo\": {{\"rank\": {}, \"world_size\": {}}},\n", facts.rank, facts.ranks);
  fmt::format_to(out, "\"hearth\": {{\"version\": {}, \"first_step\": {}, \"last_step\": {}, \"left_out\": {}}},\n",
                 as_json(HEARTH_VERSION), facts.first_step, facts.last_step, window.left_out);
  fmt::format_to(out, "\"traceEvents\": [\n");
  fmt::format_to(out,
                 "{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {0}, \"args\": {{\"name\": \"rank {0}\"}}}}",
                 facts.rank);
  for (size_t i = 0; i < window.threads.size(); ++i)
    fmt::format_to(
        out, ",\n{{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": {}, \"tid\": {}, \"args\": {{\"name\": {}}}}}",
        facts.rank, i, as_json(window.threads[i]));
  for (const trace::Span& span : window.spans) {
    fmt::format_to(
        out, ",\n{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}",
        trace::name_of(span.kind), as_json(label_of(span)), facts.rank, span.thread,
        microseconds(span.begin_ns + shift_ns), microseconds(span.end_ns - span.begin_ns));
    if (span.bytes >= 0)
      fmt::format_to(out, ", \"args\": {{\"bytes\": {}, \"group\": {}}}", span.bytes,
                     as_json(span.group == nullptr ? "" : span.group));
    text += '}';
  }
  return text += "\n]}\n";
}

Path trace_file(const Path& folder, int64_t step, int64_t rank) {
  return folder / fmt::format("iteration_{}", step) / fmt::format("rank{}_trace.json.gz", rank);
}

void write_gzip(const Path& file, const std::string& text) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  HEARTH_CHECK(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int outcome = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  HEARTH_CHECK(outcome == Z_STREAM_END, "zlib stopped with {}", outcome);
  make_folders(file.parent_path());
  write_file_atomic(file, packed);
}

}  // namespace hearth::metrics
