-- Returns the holds of the lock, newest first.
-- KEYS: lock, fence, held_until, history
-- ARGV: limit
-- Returns: {entry, …}
local lock, fence, held_until, history = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local limit = ARGV[1]

-- Uses: clock, fence, hold, past_holds, events, transfer, expiry
apply_expiry()
return redis.call('LRANGE', history, 0, limit - 1)
