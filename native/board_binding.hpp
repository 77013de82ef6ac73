#pragma once

#include <nanobind/nanobind.h>

namespace palio::python {

void register_board(nanobind::module_& module);

}  // namespace palio::python
