// SPDX-License-Identifier: Apache-2.0
// What a store answers, as S3's XML:
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/object_store.h"

namespace hearth::s3 {

// The text of the first element of this name, with its five named entities and numbers of ASCII replaced; at most 4096
// bytes of it; empty without such an element. Not a whole parser: the answers that we read have no element twice, and
// no CDATA.
std::string element(std::string_view xml, std::string_view name);

// What is inside the elements of this name, in order, as it stands. They have none of the same name inside.
std::vector<std::string_view> insides(std::string_view xml, std::string_view name);

// The text as the content of an element.
std::string escaped(std::string_view text);

struct AnswerMeaning {
  StoreResult result;
  std::string code;        // S3's, such as "NoSuchKey"; may be empty
  bool try_again = false;  // the same request may work later
};

// What an answer means. `status` is HTTP's. Some answers are errors in spite of status 200: Amazon begins to answer
// before a multipart upload is put together.
AnswerMeaning verdict_of(long status, std::string_view body);

}  // namespace hearth::s3
