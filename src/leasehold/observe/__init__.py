"""Metrics, traces and logs of what clients do with locks; needs the extra ``leasehold[observe]``.

::

    from leasehold.observe import observe

    async with leasehold.connect(url) as locks:
        observe(locks)  # and everything that is built on it: operations, documents, files
"""

from leasehold.observe.install import observe

__all__ = ["observe"]
