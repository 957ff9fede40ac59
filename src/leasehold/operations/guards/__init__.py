"""Fence guards: a resource refuses a fence that is older than the newest it has seen.

`leasehold.operations.guards.sql` guards rows, `leasehold.operations.guards.valkey` guards keys, and
`leasehold.operations.guards.http` carries fences over HTTP. Each refuses with `leasehold.StaleFence`.
"""
