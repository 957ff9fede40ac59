-- Stores the user of a ticket, and when it was issued.
-- KEYS: ticket
-- ARGV: principal, ttl_ms
-- Returns: 1
local ticket = KEYS[1]
local principal, ttl_ms = ARGV[1], ARGV[2]

-- Uses: clock
redis.call('SET', ticket, whole(now_ms) .. ' ' .. principal, 'PX', ttl_ms)
return 1
