// SPDX-License-Identifier: Apache-2.0
// Scripts and styles that go into pages. cmake/page_assets.py writes their definitions when Hearth is built: dygraphs
// is the distribution's package libjs-dygraphs, the others are src/report/run_page.js and run_page.css.
#pragma once

#include <string_view>

namespace hearth::report::page_assets {

extern const std::string_view kDygraphs, kDygraphsStyle, kScript, kStyle;

}  // namespace hearth::report::page_assets
