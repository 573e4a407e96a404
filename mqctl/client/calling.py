"""Calling what the user handed over: a coroutine function, or a plain one that may block."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")


def is_coroutine_function(function: Callable[..., object]) -> bool:
    """Also an object with an asynchronous `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def call(function: Callable[..., T | Awaitable[T]], *args: object) -> T:
    """A coroutine function runs on the loop, a plain one in a thread, so that it may wait for a database."""
    if is_coroutine_function(function):
        return await cast("Awaitable[T]", function(*args))
    result = await asyncio.to_thread(function, *args)
    return await result if inspect.isawaitable(result) else result
