"""Metrics, traces and logs of lock operations; needs the extra ``leasehold[observe]``.

::

    from leasehold.observe import observe

    async with leasehold.connect(url) as locks:
        observe(locks)  # and the operations, documents and files built on it
"""

from leasehold.observe.install import observe

__all__ = ["observe"]
