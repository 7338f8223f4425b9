#include "fuzz.h"

namespace hearth::checkpoint {
namespace {

TEST(Fuzz, ThousandsOfDamagedMetadataFilesAreRefusedOrSafe) { fuzz_metadata(0, 6000); }
TEST(Fuzz, ThousandsOfDamagedItemsAreRefusedOrSafe) { fuzz_item(0, 6000); }
TEST(Fuzz, ADamagedFolderOfPyTorchsIsRefusedOrSafe) { fuzz_folder(0, 1500); }

}  // namespace
}  // namespace hearth::checkpoint
