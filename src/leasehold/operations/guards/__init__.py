"""Fence guards: a resource that has seen a newer fence refuses an older one.

`leasehold.operations.guards.sql` guards rows, `leasehold.operations.guards.valkey` guards keys, and
`leasehold.operations.guards.http` carries fences over HTTP. Each refuses with `leasehold.StaleFence`.
"""
