#include "checkpoint/direct.h"

#include <fcntl.h>

namespace hearth::checkpoint {

bool set_direct(const File& file, bool direct) {
  const int flags = ::fcntl(file.descriptor(), F_GETFL);
  return flags >= 0 && ::fcntl(file.descriptor(), F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

}  // namespace hearth::checkpoint
