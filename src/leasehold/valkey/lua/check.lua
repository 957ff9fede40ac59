-- Tells whether the lease of this token and fence has ended. Changes no lease.
-- KEYS: lock, fence, queue, readers, people, taken
-- ARGV: token, own_fence
-- Returns: 1 when held, 0 when expired, -1 when taken
local lock, fence, queue, readers, people, taken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, own_fence = ARGV[1], ARGV[2]

-- A write, so that a replica refuses: what it has may be older or newer than the truth.
redis.call('EXPIRE', fence, 172800)
-- Uses: clock, fence, record, waiters, readers, lease, own_lease
local left_ms, why_ended = left_under(own_fence, token, read_record())
return left_ms and 1 or why_ended
