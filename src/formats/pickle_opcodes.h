// SPDX-License-Identifier: Apache-2.0
// The opcodes of a pickle that tensor files use, with the names of Python's pickletools.
#pragma once

#include <cstdint>

namespace hearth::formats {

// clang-format off
enum Opcode : uint8_t {
  kProto = 0x80, kFrame = 0x95, kStop = '.',  // the stream
  kMark = '(', kPop = '0', kPopMark = '1', kDup = '2',  // the stack
  kNone = 'N', kNewTrue = 0x88, kNewFalse = 0x89,  // values
  kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kLong1 = 0x8a, kBinFloat = 'G',  // numbers
  kBinUnicode = 'X', kShortBinUnicode = 0x8c, kBinUnicode8 = 0x8d,  // texts
  kShortBinString = 'U', kBinBytes = 'B', kShortBinBytes = 'C', kBinBytes8 = 0x8e,  // bytes
  kEmptyList = ']', kAppend = 'a', kAppends = 'e',  // lists and dicts
  kEmptyDict = '}', kSetItem = 's', kSetItems = 'u',
  kEmptyTuple = ')', kTuple = 't', kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87,  // tuples
  kGlobal = 'c', kStackGlobal = 0x93, kReduce = 'R', kNewObj = 0x81,  // objects
  kBuild = 'b', kBinPersId = 'Q',
  kMemoize = 0x94, kBinPut = 'q', kLongBinPut = 'r', kBinGet = 'h', kLongBinGet = 'j',  // the memo
};
// clang-format on

}  // namespace hearth::formats
