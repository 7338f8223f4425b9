#include "fuzz.h"

namespace hearth::checkpoint {
namespace {

TEST(FuzzSlow, AMillionDamagedMetadataFilesAreRefusedOrSafe) { fuzz_metadata(1000000, 2000000); }
TEST(FuzzSlow, AMillionDamagedItemsAreRefusedOrSafe) { fuzz_item(1000000, 2000000); }
TEST(FuzzSlow, AHundredThousandDamagedFoldersAreRefusedOrSafe) { fuzz_folder(1000000, 1100000); }

}  // namespace
}  // namespace hearth::checkpoint
