-- Sets the end of the lease of this token and fence, also to an earlier one than before. Never re-creates one that has ended.
-- KEYS: lock, fence, queue, readers, people, taken
-- ARGV: token, own_fence, ttl_ms, not_after_ms
-- Returns: 1 when done, 0 when expired, -1 when taken; the error TOOLATE when it came too late
local lock, fence, queue, readers, people, taken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, own_fence, ttl_ms, not_after_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Uses: clock, not_after, fence, record, waiters, readers, lease, own_lease
local refusal = refuse_late(not_after_ms)
if refusal then return refusal end
local kind, held_by, rest = read_record()
local left_ms, why_ended = left_under(own_fence, token, kind, held_by, rest)
if not left_ms then return why_ended end
-- First, because a server that is out of memory allows the writes of a script that has begun with a small one.
redis.call('EXPIRE', fence, 172800)
set_ttl(token, kind, rest, tonumber(ttl_ms))
return 1
