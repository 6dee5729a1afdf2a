"""Ask the processor to fetch a row of a matrix before it is needed: joins wait for memory more than they compute."""

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


def _prefetch(context: Any, matrix: Any, row: Any) -> Any:
    """Generate the processor's hint for the address of `matrix[row, 0]`."""
    signature = types.void(matrix, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        array = context.make_array(kind)(context, builder, args[0])
        place = [args[1], context.get_constant(types.intp, 0)]
        item_pointer: Any = cgutils.get_item_pointer
        pointer = item_pointer(context, builder, kind, array, place, wraparound=False, boundscheck=False)
        pointer = builder.bitcast(pointer, cgutils.voidptr_t)
        number = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], function_type)
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return signature, generate


prefetch_row = cast(Callable[[Any, Any], None], intrinsic(_prefetch))
"""Start loading `matrix[row]`; a hint without any other effect. Kernels alone can call it."""
