"""Real servers, faults and child processes for tests.

servers    Valkey 9, Redis 6.2 and Redis 7 as child processes: kill, pause, snapshot, replicate, promote
proxy      a TCP proxy that delays, stalls, cuts, loses requests or replies, and drops pushes
tls        a throw-away CA, and a TLS front for servers built without TLS
processes  Python code in a child process that talks JSON lines
eventually eventually(...): wait for a condition instead of sleeping for luck
"""
