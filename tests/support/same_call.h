// SPDX-License-Identifier: Apache-2.0
// Our declaration of a function of another library against the library's own header.
#pragma once

#include <type_traits>

namespace hearth::test {

// The arguments are of the same kinds: integers and enums of one size, pointers, and classes by value.
template <class Ours, class Theirs>
constexpr bool kAlike = (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) ||
                        (!std::is_pointer_v<Ours> && !std::is_pointer_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
                         alignof(Ours) == alignof(Theirs) && std::is_class_v<Ours> == std::is_class_v<Theirs>);

template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B>
struct SameCall<R (*)(A...), S (*)(B...)>
    : std::bool_constant<kAlike<R, S> && sizeof...(A) == sizeof...(B) && (kAlike<A, B> && ...)> {};

}  // namespace hearth::test
