/// @file Whether a text is a well-formed XML document, as far as the charts need: elements, attributes, text, entities.
#pragma once

#include <string>
#include <string_view>

namespace fmhax::sample {

/// Empty when well-formed, else what is wrong and where.
std::string xml_fault(std::string_view text);

}  // namespace fmhax::sample
