// SPDX-License-Identifier: Apache-2.0
// The part of MPI that Hearth needs. MPI libraries have different binary interfaces, so a shared object of our own
// implements it (mpi/mpi_library.cpp), compiled by the machine's mpicxx. It is loaded when ranks on several hosts
// start. Only plain types cross the border, because mpicxx may use another compiler. Calls are Local, except `begin`,
// `end` and `split`. Not safe for two threads at once.
#pragma once

#include <cstdint>

namespace hearth::comm {

// The ranks of a call.
class MpiRanks {
 public:
  virtual ~MpiRanks() = default;
  // Element sizes are 1, 2, 4 or 8 bytes. Counts are elements of one rank's part, at most 2^31 - 1.
  // The start_ functions return 0, or MPI's error. They begin the only call under way; test() says when it is done.
  // to: [size * count]; from: [count], or null: this rank's part of `to`.
  virtual int start_all_gather(void* to, const void* from, int64_t count, int64_t element_bytes) = 0;
  // to, from: [size * count].
  virtual int start_all_to_all(void* to, const void* from, int64_t count, int64_t element_bytes) = 0;
  // Parts of any lengths: counts[r] elements from or for rank r, beginning at begins[r]. The lists must live until the
  // call is done.
  virtual int start_all_to_all_of_any(void* to, const int* to_counts, const int* to_begins, const void* from,
                                      const int* from_counts, const int* from_begins, int64_t element_bytes) = 0;
  // values: [count].
  virtual int start_send(const void* values, int64_t count, int64_t element_bytes, int64_t to) = 0;
  virtual int start_recv(void* values, int64_t count, int64_t element_bytes, int64_t from) = 0;
  // Sets `done`. Call it often, because some libraries move data only during this call.
  virtual int test(bool& done) = 0;
  // Ranks with the same `color`, in their order. Null after an error. Collective over these ranks.
  virtual MpiRanks* split(int64_t color) = 0;
};

class MpiLibrary {
 public:
  virtual ~MpiLibrary() = default;
  virtual const char* name() const = 0;  // "Open MPI v4.1.4, ..."
  // Meets the ranks that MPI's launcher started. Returns null, or what went wrong. Once a process. Collective.
  virtual const char* begin() = 0;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual MpiRanks& all() = 0;
  virtual const char* text_of(int error) = 0;
  // Waits for all ranks. Afterwards no call is possible. Collective.
  virtual void end() = 0;
};

// The only symbol of the shared object: HEARTH_MPI_ENTRY. The library lives as long as the process.
using OpenMpiLibrary = MpiLibrary* (*)();
inline constexpr const char* kMpiObject = "libhearth_mpi.so";

}  // namespace hearth::comm
