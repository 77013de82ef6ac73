#pragma once

#include <nanobind/nanobind.h>

#include "shared_index.hpp"

namespace palio::python {

void register_index(nanobind::module_& module);

// What an Index of Python's holds; it lives as long as that.
SharedIndex& shared_of(nanobind::handle index);

}  // namespace palio::python
