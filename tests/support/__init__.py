"""Real servers, faults and child processes for tests. Knows nothing of leasehold.

servers    Valkey 9, Redis 6.2 and Redis 7 as child processes: kill, pause, snapshot, replicate, promote
proxy      a TCP proxy that delays, stalls, cuts, loses requests or replies, and drops pushes
tls        a throw-away CA, and a TLS front for servers built without TLS
processes  Python code in a child process that talks JSON lines
waiting    eventually(...): wait for a fact instead of sleeping for luck
"""
