// SPDX-License-Identifier: Apache-2.0
// Where rows are among the places [B * S] of a micro-batch, and the borders of documents there.
#pragma once

#include "kernels/kernels.h"
#include "kernels/platform.h"

namespace hearth::kernels {

// The position of row i in its sequence, and the number of the first n rows whose positions are below p.
__device__ inline int64_t position_of(const Places& places, int64_t i) {
  return i < places.length ? places.first + i : places.second + (i - places.length);
}
__device__ inline int64_t rows_below(const Places& places, int64_t n, int64_t p) {
  int64_t rows = p - places.first;
  if (rows > places.length) rows = p > places.second ? places.length + (p - places.second) : places.length;
  if (rows > n) rows = n;
  return rows > 0 ? rows : 0;
}

// starts_N ascending, including each row's first place. null: a row of S places is one document.
struct Documents {
  const int32_t* starts_N;
  int64_t N, S;
};

// [begin, end) of the document of `place`. Threads with neighbouring places read the same addresses.
struct PlaceRange {
  int64_t begin, end;
};
__device__ inline PlaceRange document_of(const Documents& documents, int64_t place) {
  if (documents.starts_N == nullptr) {
    const int64_t begin = place / documents.S * documents.S;
    return {begin, begin + documents.S};
  }
  int64_t low = 0, high = documents.N;  // starts_N[low] <= place < starts_N[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    if (documents.starts_N[middle] <= place) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int64_t begin = documents.starts_N[low], row_end = (begin / documents.S + 1) * documents.S;
  return {begin, high < documents.N ? documents.starts_N[high] : row_end};
}

}  // namespace hearth::kernels
