"""Implements the ports of the core for asyncio and for threads: clocks, random numbers, concurrency."""
