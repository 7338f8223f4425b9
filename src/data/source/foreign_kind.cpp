// SPDX-License-Identifier: Apache-2.0
#include "data/source/foreign_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace hearth::data {
namespace {

using namespace std::string_view_literals;

// A mark at a place in the file. Marks of plain letters may also begin a text: those with is_weak count only where the
// bytes are not text.
struct Mark {
  size_t offset;
  std::string_view bytes;
  std::string_view name;
  std::string_view fix = {};  // {}: the path
  bool is_weak = false;
};

constexpr std::string_view kUnpack7z = "unpack it first: 7z x {}", kExport = "export its text first";
constexpr std::string_view kTable = "write it as Parquet or JSON lines first";
constexpr std::string_view kLfsFix = "get the data: `git lfs pull` in the clone, or `hearth fetch`";

constexpr const char* kDecrypt = "decrypt it first: read it with its keys, and write the table without encryption";

constexpr Mark kMarks[] = {
    // Pointers to data elsewhere.
    {0, "version https://git-lfs.github.com/spec/", "a pointer of git-lfs, without the data", kLfsFix},
    {0, "/annex/objects/", "a pointer of git-annex, without the data", "get the data: git annex get {}"},
    {0, "# xet version", "a pointer of Xet, without the data", "get the data: `hearth fetch`"},
    // Archives and packed files.
    {0, "7z\xbc\xaf\x27\x1c", "a 7z archive", kUnpack7z},
    {0, "Rar!\x1a\x07", "a RAR archive", "unpack it first: unrar x {}"},
    {0, "\x04\x22\x4d\x18", "an lz4 file", "unpack it first: lz4 --decompress < {0} > {0}.unpacked"},
    {0, "\x02\x21\x4c\x18", "an lz4 file", "unpack it first: lz4 --decompress < {0} > {0}.unpacked"},
    {0, "\x1f\x8b", "a gzip file", "unpack it first: gzip --decompress < {0} > {0}.unpacked"},
    {0, "\x28\xb5\x2f\xfd", "a zstd file", "unpack it first: zstd --decompress < {0} > {0}.unpacked"},
    {0, "\xfd\x37zXZ\0"sv, "an xz file", "unpack it first: xz --decompress < {0} > {0}.unpacked"},
    {0, "BZh", "a bzip2 file", "unpack it first: bzip2 --decompress < {0} > {0}.unpacked", true},
    {0, "LZIP\x01", "an lzip file", "unpack it first: lzip --decompress < {0} > {0}.unpacked"},
    {0, "\x89LZO\0\r\n\x1a\n"sv, "an lzop file", "unpack it first: lzop --decompress < {0} > {0}.unpacked"},
    {0, "\x1f\x9d", "a file of compress (.Z)", "unpack it first: gzip --decompress < {0} > {0}.unpacked"},
    {0, "\x5d\0\0"sv, "an LZMA file", "unpack it first: xz --format=lzma --decompress < {0} > {0}.unpacked"},
    {0, "\xff\x06\0\0sNaPpY"sv, "a Snappy file", "unpack it first, with python-snappy: python3 -m snappy -d {}"},
    {0, "\x37\xa4\x30\xec", "a dictionary of zstd"},
    {0, "!<arch>\n", "an ar archive", "unpack it first: ar x {}"},
    {0, "\xed\xab\xee\xdb", "an RPM package"},
    {0, "MSCF\0\0"sv, "a cabinet archive", kUnpack7z},
    {0, "WARC/0.", "a web archive (WARC)", "take the text out of its records first, for example with warcio"},
    {0, "WARC/1.", "a web archive (WARC)", "take the text out of its records first, for example with warcio"},
    // Pictures.
    {0, "\x89PNG\r\n\x1a\n", "a PNG picture"},
    {0, "\xff\xd8\xff", "a JPEG picture"},
    {0, "GIF87a", "a GIF picture", {}, true},
    {0, "GIF89a", "a GIF picture", {}, true},
    {0, "BM", "a BMP picture", {}, true},
    {0, "II*\0"sv, "a TIFF picture"},
    {0, "MM\0*"sv, "a TIFF picture"},
    {8, "WEBP", "a WebP picture", {}, true},
    {0, "8BPS\0"sv, "a Photoshop picture"},
    {0, "\0\0\0\x0cjP  "sv, "a JPEG 2000 picture"},
    {0, "SIMPLE  =", "a FITS file", {}, true},
    // Sounds and videos.
    {8, "WAVE", "a WAV sound", {}, true},
    {8, "AVI ", "an AVI video", {}, true},
    {0, "ID3", "an MP3 sound", {}, true},
    {0, "\xff\xfb", "an MP3 sound", {}, true},
    {0, "fLaC", "a FLAC sound", {}, true},
    {0, "OggS", "an Ogg sound or video", {}, true},
    {4, "ftyp", "an MP4 video, or a sound or picture in its container", {}, true},
    {0, "\x1a\x45\xdf\xa3", "a Matroska or WebM video"},
    // Documents and fonts.
    {0, "%PDF-", "a PDF document", "take its text out first: pdftotext {}"},
    {0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document", kExport},
    {0, "{\\rtf", "an RTF document", kExport},
    {0, "AT&TFORM", "a DjVu document", "take its text out first: djvutxt {}", true},
    {60, "BOOKMOBI", "a Mobipocket book", kExport, true},
    {0, "\0\x01\0\0\0"sv, "a TrueType font"},
    {0, "OTTO", "an OpenType font", {}, true},
    {0, "wOFF", "a web font", {}, true},
    {0, "wOF2", "a web font", {}, true},
    // Programs.
    {0, "\x7f\x45LF", "an ELF program or library"},
    {0, "MZ", "a Windows program or library", {}, true},
    {0, "\xfe\xed\xfa\xce", "a macOS program or library"},
    {0, "\xfe\xed\xfa\xcf", "a macOS program or library"},
    {0, "\xcf\xfa\xed\xfe", "a macOS program or library"},
    {0, "\xca\xfe\xba\xbe", "a Java class or a macOS program"},
    {0, "\0asm"sv, "a WebAssembly program"},
    {0, "\x42\x43\xc0\xde", "LLVM bitcode"},
    {0, "PACK\0\0\0"sv, "a pack of git"},
    {0, "DIRC\0\0\0"sv, "an index of git"},
    // Data.
    {0, "SQLite format 3\0"sv, "an SQLite database",
     "export its texts first, for example: sqlite3 -json {} 'SELECT text FROM ...' > texts.json"},
    {0, "\x89HDF\r\n\x1a\n", "an HDF5 file", kTable},
    {0, "\x93NUMPY", "a NumPy array"},
    {0, "ORC", "an ORC table", kTable, true},
    {0, "Obj\x01", "an Avro file", kTable},
    {0, "FEA1", "a Feather file of version 1", kTable, true},
    {0, "MATLAB 5.0 MAT-file", "a file of MATLAB", kTable, true},
    {0, "GGUF", "a file of weights (GGUF)", {}, true},
    {0, "lmgg", "a file of weights (GGML)", {}, true},
    {0, "tjgg", "a file of weights (GGML)", {}, true},
    {0, "MMIDIDX\0\0"sv, "the index of a token file",
     "give its tokens: NAME.bin, with this file as NAME.idx beside it"},
    {0, "TNTIDX\0\0"sv, "the index of a token file", "give its tokens: NAME.bin, with this file as NAME.idx beside it"},
};

constexpr std::string_view kIconv = "convert it first: iconv --from-code={} --to-code=UTF-8 --output={}.utf8 {}";

struct Encoding {
  std::string_view mark, name;
};
// UTF-32's little-endian mark begins like UTF-16's.
constexpr std::array kEncodings = {
    Encoding{"\xff\xfe\0\0"sv, "UTF-32"}, Encoding{"\0\0\xfe\xff"sv, "UTF-32"},    Encoding{"\xff\xfe", "UTF-16"},
    Encoding{"\xfe\xff", "UTF-16"},       Encoding{"\x84\x31\x95\x33", "GB18030"},
};

std::optional<ForeignKind> other_encoding(std::string_view bytes, const std::string& path) {
  for (const Encoding& encoding : kEncodings) {
    if (bytes.starts_with(encoding.mark))
      return ForeignKind{fmt::format("text in {}", encoding.name), "it begins with that encoding's byte order mark",
                         fmt::format(kIconv, encoding.name, path, path)};
  }
  return {};
}

struct ByteCounts {
  size_t all = 0, zeros = 0, controls = 0;  // zeros are controls, too
  std::array<size_t, 4> zeros_at{};         // by position modulo 4
  bool begins_with_zeros = false;           // among its first 16 bytes is a zero

  // Bytes of any value have 11 controls in a hundred, and numbers far more zeros. A crawled text may have a stray one.
  bool are_text() const { return (controls <= 1 || controls * 50 <= all) && zeros * 200 <= all && !begins_with_zeros; }
};

// Control characters that texts have: tabs, line ends, form feeds, backspaces, and ESC of terminals.
constexpr bool is_control(unsigned char c) { return (c < 0x20 && !(c >= 0x08 && c <= 0x0d) && c != 0x1b) || c == 0x7f; }

ByteCounts count(std::string_view bytes) {
  ByteCounts counts;
  counts.all = bytes.size();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (!is_control(c)) continue;
    ++counts.controls;
    if (c != 0) continue;
    ++counts.zeros;
    ++counts.zeros_at[i % 4];
  }
  counts.begins_with_zeros = bytes.substr(0, 16).find('\0') != std::string_view::npos;
  return counts;
}

// Wide characters of Latin text: nearly every second byte is zero, or three of four, and the others are letters. Ids of
// tokens below 256 look like them, and many are control characters.
std::string_view wide_encoding(const ByteCounts& counts) {
  if ((counts.controls - counts.zeros) * 50 > counts.all) return {};
  const auto most = [&](size_t place) { return counts.zeros_at[place] * 4 * 10 > counts.all * 8; };
  const auto few = [&](size_t place) { return counts.zeros_at[place] * 4 * 10 < counts.all; };
  if (few(0) && most(1) && most(2) && most(3)) return "UTF-32LE";
  if (most(0) && most(1) && most(2) && few(3)) return "UTF-32BE";
  if (few(0) && most(1) && few(2) && most(3)) return "UTF-16LE";
  if (most(0) && few(1) && most(2) && few(3)) return "UTF-16BE";
  return {};
}

// A zip file's first member says what kind of zip file it is.
std::string_view zip_name(std::string_view bytes) {
  constexpr size_t kHeader = 30, kNameSizeAt = 26;
  uint16_t size = 0;
  if (bytes.size() < kHeader) return "a zip archive";
  std::memcpy(&size, bytes.data() + kNameSizeAt, sizeof size);
  const std::string_view name = bytes.substr(kHeader, size),
                         content = bytes.substr(std::min(bytes.size(), kHeader + size));
  if (name.ends_with("data.pkl")) return "a file of torch.save";
  if (name.ends_with(".npy")) return "a NumPy archive (.npz)";
  if (name.starts_with("META-INF/")) return "a Java archive";
  if (name == "mimetype" && content.starts_with("application/epub")) return "an EPUB book";
  const bool is_office = name == "mimetype" || name == "[Content_Types].xml" || name.starts_with("_rels/") ||
                         name.starts_with("word/") || name.starts_with("xl/") || name.starts_with("ppt/");
  return is_office ? "an Office document" : "a zip archive";
}

std::optional<ForeignKind> zip_kind(std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with("PK\x03\x04") && !bytes.starts_with("PK\x05\x06") && !bytes.starts_with("PK\x07\x08"))
    return {};
  const std::string_view name = zip_name(bytes);
  if (name == "a zip archive") return ForeignKind{std::string(name), {}, "unpack it first: unzip " + path};
  const bool is_document = name == "an Office document" || name == "an EPUB book";
  return ForeignKind{std::string(name), {}, is_document ? std::string(kExport) : std::string()};
}

// The checksum of a tar archive's header is the sum of its bytes.
bool is_tar(std::string_view bytes) {
  constexpr size_t kBlock = 512, kSumAt = 148, kSumSize = 8;
  if (bytes.size() < kBlock || bytes[0] == '\0') return false;
  uint64_t sum = 0, written = 0;
  for (size_t i = 0; i < kBlock; ++i)
    sum += i >= kSumAt && i < kSumAt + kSumSize ? uint64_t{' '} : static_cast<unsigned char>(bytes[i]);
  std::string_view digits = bytes.substr(kSumAt, kSumSize);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  if (digits.empty() || digits[0] < '0' || digits[0] > '7') return false;
  for (size_t i = 0; i < digits.size() && digits[i] >= '0' && digits[i] <= '7'; ++i)
    written = written * 8 + static_cast<uint64_t>(digits[i] - '0');
  return written == sum;
}

// A cpio archive with a header of digits.
bool is_cpio(std::string_view bytes) {
  constexpr size_t kMarkSize = 6, kDigits = 70;
  if (!bytes.starts_with("070701") && !bytes.starts_with("070702") && !bytes.starts_with("070707")) return false;
  const std::string_view digits = bytes.substr(kMarkSize, kDigits);
  return digits.size() == kDigits && digits.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

bool is_safetensors(std::string_view bytes) {
  constexpr uint64_t kMostHeader = 100'000'000;  // the format's own limit
  uint64_t size = 0;
  if (bytes.size() < sizeof size + 1) return false;
  std::memcpy(&size, bytes.data(), sizeof size);
  return size >= 2 && size <= kMostHeader && bytes[sizeof size] == '{';
}

// A pointer of DVC. The file that it names is beside it once it was fetched.
bool is_dvc_pointer(std::string_view bytes, const Path& path) {
  return bytes.starts_with("outs:\n- md5: ") ||
         (path.extension() == ".dvc" &&
          (bytes.starts_with("outs:") || bytes.find("\nouts:") != std::string_view::npos));
}

// A Parquet file with an encrypted footer. One whose columns alone are encrypted begins as any other.
bool is_encrypted_parquet(std::string_view bytes, const Path& path, bool is_text) {
  return bytes.starts_with("PARE") && (!is_text || path.extension() == ".parquet");
}

std::optional<ForeignKind> marked_kind(std::string_view bytes, const std::string& path, bool is_text) {
  for (const Mark& mark : kMarks) {
    if ((mark.is_weak && is_text) || bytes.size() < mark.offset) continue;
    if (bytes.substr(mark.offset).starts_with(mark.bytes))
      return ForeignKind{std::string(mark.name), {}, fmt::format(fmt::runtime(mark.fix), path)};
  }
  if (is_tar(bytes)) return ForeignKind{"a tar archive", {}, "unpack it first: tar --extract --file " + path};
  if (is_cpio(bytes)) return ForeignKind{"a cpio archive", {}, "unpack it first: cpio --extract < " + path};
  if (is_safetensors(bytes)) return ForeignKind{"a file of weights (safetensors)", {}, {}};
  const bool is_pickle = bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5;
  return is_pickle ? std::optional(ForeignKind{"a pickle of Python", {}, {}}) : std::nullopt;
}

}  // namespace

std::optional<ForeignKind> foreign_kind(std::string_view first_bytes, const Path& path) {
  const std::string_view bytes = first_bytes.substr(0, kKindBytes);
  const std::string shown = shell_word(path.string());
  if (auto kind = other_encoding(bytes, shown)) return kind;
  if (auto kind = zip_kind(bytes, shown)) return kind;
  const ByteCounts counts = count(bytes);
  const bool is_text = counts.are_text();
  if (is_dvc_pointer(bytes, path))
    return ForeignKind{"a pointer of DVC, without the data", {}, "get the data: dvc pull " + shown};
  if (is_encrypted_parquet(bytes, path, is_text))
    return ForeignKind{"an encrypted Parquet file", "its footer is encrypted, and Hearth takes no keys", kDecrypt};
  if (auto kind = marked_kind(bytes, shown, is_text)) return kind;
  if (is_text) return {};
  if (const std::string_view name = wide_encoding(counts); !name.empty())
    return ForeignKind{fmt::format("text in {}", name), "its letters are wider than a byte",
                       fmt::format(kIconv, name, shown, shown)};
  ForeignKind kind{"not text",
                   fmt::format("{} of its first {} bytes are control characters, {} of them zero", counts.controls,
                               counts.all, counts.zeros),
                   {}};
  if (path.extension() == ".br") kind.fix = "unpack it first, if it is a file of brotli: brotli --decompress " + shown;
  if (path.extension() == ".bin") kind.fix = "if it is a token file, put its index NAME.idx beside it";
  return kind;
}

void require_text(std::string_view bytes, const Path& path) {
  if (const auto kind = foreign_kind(bytes, path))
    throw user_error(fmt::format("{} is {}", path.string(), kind->name), kind->why, kind->fix);
}

namespace {

// The same for the part from `position` on.
std::optional<ForeignKind> foreign_part(std::string_view bytes, int64_t position) {
  ByteCounts counts = count(bytes);
  counts.begins_with_zeros = false;  // a stray zero may be anywhere
  if (counts.are_text()) return {};
  const auto first = std::ranges::find_if(bytes, [](char c) { return is_control(static_cast<unsigned char>(c)); });
  return ForeignKind{fmt::format("not text at byte {}", position + (first - bytes.begin())),
                     fmt::format("{} of the {} bytes at {} are control characters, {} of them zero", counts.controls,
                                 counts.all, position, counts.zeros),
                     "take the file apart, or get it again"};
}

}  // namespace

std::optional<ForeignKind> foreign_rest(int64_t size, const std::function<std::string_view(int64_t position)>& read) {
  const auto window = static_cast<int64_t>(kKindBytes);
  if (size <= window) return {};
  for (const int64_t begin : {size / 2, size / 4 * 3, size - window}) {
    const int64_t position = std::min(begin, size - window);
    if (auto kind = foreign_part(read(position), position)) return kind;
  }
  return {};
}

}  // namespace hearth::data
