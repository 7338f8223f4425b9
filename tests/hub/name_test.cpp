// SPDX-License-Identifier: Apache-2.0
#include "hub/name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "hub/known.h"
#include "support/environment.h"

namespace hearth::hub {
namespace {

using testing::HasSubstr;

TEST(HubName, HasARepositoryAndPerhapsARevision) {
  EXPECT_EQ(parse_name("hf:me/a-model_1.5"), (Name{false, "me/a-model_1.5", ""}));
  EXPECT_EQ(parse_name("hf:me/model@refs/pr/3"), (Name{false, "me/model", "refs/pr/3"}));
  EXPECT_EQ(parse_name("hf:datasets/me/data@v1.0"), (Name{true, "me/data", "v1.0"}));
  EXPECT_EQ(parse_name("hf:datasets/data"), (Name{false, "datasets/data", ""}));
  for (const char* text : {"hf:me/model", "hf:datasets/me/data@main"}) EXPECT_EQ(format_name(parse_name(text)), text);
}

TEST(HubName, ThatCouldLeaveItsFolderOrBeAnOptionIsRefused) {
  for (const char* text : {"hf:", "hf:model", "hf:../etc", "hf:me/..", "hf:me/a/b", "hf:me/-x", "hf:-x/me", "hf:me/m@",
                           "hf:me/m@../x", "hf:me/m@-x", "hf:me/m@a b", "hf:me/m\n", "hf:datasets/a/b/c", "me/model",
                           "hf:me/.hidden", "hf:/m", "hf:me/"}) {
    try {
      parse_name(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUser);
      EXPECT_THAT(error.what(), HasSubstr("write hf:ORG/NAME")) << text;
    }
  }
}

TEST(HubName, HasAFolderOfItsOwnForEachRevision) {
  ::setenv("HEARTH_HUB", "/hub", 1);
  EXPECT_EQ(folder_of(parse_name("hf:me/m")), "/hub/models/me/m");
  EXPECT_EQ(folder_of(parse_name("hf:datasets/me/m@refs/pr/3")), "/hub/datasets/me/m@refs_pr_3");
  ::unsetenv("HEARTH_HUB");
}

TEST(KnownNames, AreNamesOfTheHubAndDifferent) {
  for (const Known& known : known_names()) {
    EXPECT_EQ(format_name(parse_name(known.name)), known.name);
    EXPECT_EQ(find_known(known.short_name), &known);
    EXPECT_FALSE(known.licence.empty() || known.what.empty()) << known.name;
  }
  EXPECT_EQ(find_known("nothing"), nullptr);
}

}  // namespace
}  // namespace hearth::hub
