-- Ends the lease of this token, or its waiting, and no other. The lock goes to the next waiter.
-- KEYS: lock, fence, queue, readers, people
-- ARGV: token
-- Returns: 1 when it ended a lease, 0 when that had ended before
local lock, fence, queue, readers, people = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local token = ARGV[1]

-- The fast path: the queue is empty.
local record = redis.call('GET', lock)
if record and string.sub(record, 1, 34) == '2x' .. token then return redis.call('DEL', lock) end

-- Uses: clock, fence, record, waiters, readers, advance_queue, lease, release_token
return release_token(token)
