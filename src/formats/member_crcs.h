// SPDX-License-Identifier: Apache-2.0
// Checks CRC-32s of zip members while their parts are read for another purpose, in any order. So no byte is read twice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>

#include "base/file.h"
#include "formats/item.h"

namespace hearth::formats {

class MemberCrcs {
 public:
  // `bytes` were read from offset `at` of the file. Only bytes inside the member count, and each offset counts once.
  // Not thread-safe.
  void add(const std::string& file, const CrcRange& member, int64_t at, std::span<const std::byte> bytes);

  // Checks each member that add() has seen, and forgets it. `read_rest`: true reads the bytes of a member that add()
  // has not seen; false skips members that are not complete. Throws damaged() naming the file and the place.
  void check(const std::function<const File&(const std::string& file)>& open, bool read_rest);

 private:
  struct Part {
    int64_t end;
    uint32_t crc;
  };
  struct Member {
    CrcRange range;
    std::map<int64_t, Part> parts;  // by their begins; no two touch each other

    // Bytes from `at` on, all within the range.
    void add(int64_t at, std::span<const std::byte> bytes);
    void add_new(int64_t at, std::span<const std::byte> bytes);
    bool is_whole() const;
    void read_rest(const File& file);
  };
  std::map<std::tuple<std::string, int64_t, int64_t>, Member> members_;  // by file, begin and length
};

}  // namespace hearth::formats
