// SPDX-License-Identifier: Apache-2.0
#include "base/error_list.h"

#include <gtest/gtest.h>

#include "support/errors.h"

namespace hearth {
namespace {

using test::error_of;

TEST(ErrorList, OneErrorIsThrownAsItWas) {
  ErrorList errors;
  EXPECT_TRUE(errors.attempt([] {}));
  EXPECT_TRUE(errors.empty());
  errors.throw_if_any("the run");
  EXPECT_FALSE(errors.attempt([] { throw user_error("a", "b", "c"); }));
  EXPECT_STREQ(error_of([&] { errors.throw_if_any("the run"); }).what(), "error: a\n  why: b\n  fix: c");
}

TEST(ErrorList, SeveralAreOneErrorThatListsThem) {
  ErrorList inner, errors;
  for (const char* what : {"a", "b"}) inner.attempt([&] { throw user_error(what, "why " + std::string(what)); });
  errors.attempt([] { throw user_error("first", {}, "a fix"); });
  errors.attempt([&] { inner.throw_if_any("inner"); });    // the errors remain after the list is gone
  errors.attempt([] { throw user_error("b", "why b"); });  // met again
  const Error error = error_of([&] { errors.throw_if_any("the run"); });
  EXPECT_STREQ(error.what(),
               "error: the run has 3 errors\n  first\n      fix: a fix\n  a\n      why: why a\n  b\n      why: why b");
  EXPECT_EQ(error.code(), ExitCode::kUser);
}

TEST(ErrorList, ABugGoesOn) {
  ErrorList errors;
  const Error bug(ExitCode::kBug, "ours");
  EXPECT_EQ(error_of([&] { errors.attempt([&] { throw bug; }); }).code(), ExitCode::kBug);
  EXPECT_TRUE(errors.empty());
}

TEST(ErrorList, WhatTheUserHasToMendDecidesTheExitCode) {
  ErrorList errors;
  errors.attempt([] { throw damaged("a file"); });
  errors.attempt([] { throw Error(ExitCode::kHardware, "a disk"); });
  EXPECT_EQ(error_of([&] { errors.throw_if_any("the run"); }).code(), ExitCode::kDamaged);
  errors.attempt([] { throw user_error("a key"); });
  EXPECT_EQ(error_of([&] { errors.throw_if_any("the run"); }).code(), ExitCode::kUser);
}

TEST(ErrorList, AnErrorIsAboutTheInnermostKeyThatIsNamed) {
  ErrorList errors;
  EXPECT_FALSE(errors.attempt_about("data.path", [] { throw user_error("a", "b", "c"); }));
  errors.attempt_about("data.path", [] { throw user_error("d").about("data.order"); });
  errors.attempt([] { throw user_error("e"); });
  ASSERT_EQ(errors.list().size(), 3u);
  EXPECT_EQ(errors.list()[0].key(), "data.path");
  EXPECT_STREQ(errors.list()[0].what(), "error: a\n  why: b\n  fix: c");
  EXPECT_EQ(errors.list()[1].key(), "data.order");
  EXPECT_EQ(errors.list()[2].key(), "");
}

}  // namespace
}  // namespace hearth
