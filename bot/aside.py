"""Work that takes milliseconds of processor time, done beside the event loop so that others' conversations go on.

Two threads: more would only wait for each other and for the interpreter's lock. A third is for what may not wait in
their queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_POOL = ThreadPoolExecutor(2, thread_name_prefix="raise-aside")
_FIRST = ThreadPoolExecutor(1, thread_name_prefix="raise-first")


async def aside(
    work: Callable[_Arguments, _Result], *arguments: _Arguments.args, **more: _Arguments.kwargs
) -> _Result:
    """The result of a call made in one of the two threads."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_POOL, partial(work, *arguments, **more))


async def first(work: Callable[[], _Result]) -> _Result:
    """The same for what somebody in danger waits for: it does not queue behind everybody else."""
    return await asyncio.get_running_loop().run_in_executor(_FIRST, work)
