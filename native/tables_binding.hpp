// What Python sees of tables of events.
#pragma once

#include <nanobind/nanobind.h>

namespace palio::python {

void register_tables(nanobind::module_& module);

}  // namespace palio::python
