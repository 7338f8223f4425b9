// SPDX-License-Identifier: Apache-2.0
// Compiled by mpicxx. See comm/mpi_library.h.
#include "comm/mpi_library.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <climits>

namespace hearth::comm {
namespace {

// Bits are moved, not numbers.
MPI_Datatype type_of(int64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    default:
      return MPI_UINT64_T;
  }
}

class Ranks final : public MpiRanks {
 public:
  explicit Ranks(MPI_Comm comm) : comm_(comm) {}

  int start_all_gather(void* to, const void* from, int64_t count, int64_t element_bytes) override {
    if (count > INT_MAX) return MPI_ERR_COUNT;
    const MPI_Datatype type = type_of(element_bytes);
    const auto n = static_cast<int>(count);
    if (from == nullptr) return MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, n, type, comm_, &request_);
    return MPI_Iallgather(from, n, type, to, n, type, comm_, &request_);
  }
  int start_all_to_all(void* to, const void* from, int64_t count, int64_t element_bytes) override {
    if (count > INT_MAX) return MPI_ERR_COUNT;
    const MPI_Datatype type = type_of(element_bytes);
    const auto n = static_cast<int>(count);
    return MPI_Ialltoall(from, n, type, to, n, type, comm_, &request_);
  }
  int start_all_to_all_of_any(void* to, const int* to_counts, const int* to_begins, const void* from,
                              const int* from_counts, const int* from_begins, int64_t element_bytes) override {
    const MPI_Datatype type = type_of(element_bytes);
    return MPI_Ialltoallv(from, from_counts, from_begins, type, to, to_counts, to_begins, type, comm_, &request_);
  }
  int start_send(const void* values, int64_t count, int64_t element_bytes, int64_t to) override {
    if (count > INT_MAX) return MPI_ERR_COUNT;
    return MPI_Isend(values, static_cast<int>(count), type_of(element_bytes), static_cast<int>(to), 0, comm_,
                     &request_);
  }
  int start_recv(void* values, int64_t count, int64_t element_bytes, int64_t from) override {
    if (count > INT_MAX) return MPI_ERR_COUNT;
    return MPI_Irecv(values, static_cast<int>(count), type_of(element_bytes), static_cast<int>(from), 0, comm_,
                     &request_);
  }
  int test(bool& done) override {
    int flag = 0;
    const int error = MPI_Test(&request_, &flag, MPI_STATUS_IGNORE);
    done = flag != 0;
    return error;
  }
  MpiRanks* split(int64_t color) override {
    MPI_Comm part = MPI_COMM_NULL;
    int rank = 0;
    if (MPI_Comm_rank(comm_, &rank) != MPI_SUCCESS) return nullptr;
    if (MPI_Comm_split(comm_, static_cast<int>(color), rank, &part) != MPI_SUCCESS) return nullptr;
    MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN);
    return new Ranks(part);
  }

 private:
  MPI_Comm comm_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class Library final : public MpiLibrary {
 public:
  Library() {
    int length = 0;
    MPI_Get_library_version(name_, &length);
    for (int i = 0; i < length; ++i)
      if (name_[i] == '\n') name_[i] = '\0';
  }
  const char* name() const override { return name_; }
  const char* begin() override {
    int begun = 0, given = 0;
    MPI_Initialized(&begun);
    if (begun != 0) return nullptr;
    if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given); error != MPI_SUCCESS)
      return text_of(error);
    if (given < MPI_THREAD_SERIALIZED) return "it takes calls from one thread only";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    return nullptr;
  }
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  MpiRanks& all() override { return all_; }
  const char* text_of(int error) override {
    int length = 0;
    MPI_Error_string(error, text_, &length);
    return text_;
  }
  void end() override { MPI_Finalize(); }

 private:
  char name_[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  char text_[MPI_MAX_ERROR_STRING] = "";
  int rank_ = 0, size_ = 1;
  Ranks all_{MPI_COMM_WORLD};
};

}  // namespace

extern "C" __attribute__((visibility("default"))) MpiLibrary* HEARTH_MPI_ENTRY() {
  static Library library;
  return &library;
}

}  // namespace hearth::comm
