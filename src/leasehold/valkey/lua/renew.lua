-- Extends the lease of this token and fence. Never shortens it, so it may come late, and never re-creates one that has ended.
-- KEYS: lock, fence, queue, readers, people, taken
-- ARGV: token, own_fence, ttl_ms
-- Returns: 1 when extended, 0 when expired, -1 when taken
local lock, fence, queue, readers, people, taken = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local token, own_fence, ttl_ms = ARGV[1], ARGV[2], ARGV[3]

-- The fast path: the queue is empty. The counter must outlive the lease, which may be renewed for any time.
local record = redis.call('GET', lock)
if record and string.sub(record, 1, 34) == '2x' .. token then
  local count = redis.pcall('GETEX', fence, 'EX', 172800)
  if type(count) == 'table' then
    -- This user may not run GETEX, so the fence is not compared.
    redis.call('EXPIRE', fence, 172800)
    count = own_fence
  end
  if not count or count == own_fence then
    -- Redis has GT from 7.0 on, as it has this number.
    if redis.REDIS_VERSION_NUM then
      redis.call('PEXPIRE', lock, ttl_ms, 'GT')
    elseif redis.call('PTTL', lock) < tonumber(ttl_ms) then
      redis.call('PEXPIRE', lock, ttl_ms)
    end
    return 1
  end
end

-- Uses: clock, fence, record, waiters, readers, lease, own_lease
local kind, held_by, rest = read_record()
local left_ms, why_ended = left_under(own_fence, token, kind, held_by, rest)
if not left_ms then return why_ended end
-- First, because a server that is out of memory allows the writes of a script that has begun with a small one.
redis.call('EXPIRE', fence, 172800)
set_ttl(token, kind, rest, math.max(left_ms, tonumber(ttl_ms)))
return 1
