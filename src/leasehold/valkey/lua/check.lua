-- Tells whether the lease of this token and fence has ended. Changes no lease.
-- KEYS: lock, fence, queue, readers, people, taken
-- ARGV: token, own_fence
-- Returns: 1 when held, 0 when expired, -1 when taken
local lock, fence, queue, readers, people, taken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, own_fence = ARGV[1], ARGV[2]

-- A write, so that a replica refuses: what it has may be older or newer than the truth.
redis.call('EXPIRE', fence, 172800)
-- Uses: clock, fence, record, waiters, readers, lease
local kind, held_by, rest = read_record()
if left_of(token, kind, held_by, rest) and has_fence(token, kind, own_fence) then return 1 end
local taken_by = tonumber(redis.call('GET', taken)) or 0
return taken_by > tonumber(own_fence) and -1 or 0
