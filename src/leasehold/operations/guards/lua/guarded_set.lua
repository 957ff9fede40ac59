-- Writes the value unless a newer fence has been seen, and registers the fence.
-- KEYS: value, guard
-- ARGV: fence, mode, nonce, content, ttl_ms, keep_ms
-- Returns: {1, seen} when written, also for a repeated request; {0, seen} when refused. ttl_ms 0: no expiry.
local value, guard = KEYS[1], KEYS[2]
local fence, mode, nonce, content, ttl_ms, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

-- Uses: guard
local seen, last, before = read_guard(guard)
if nonce == last or nonce == before then return {1, seen} end
if tonumber(fence) < tonumber(seen) then return {0, seen} end
if mode == 'exclusive' and tonumber(fence) > tonumber(seen) then
  seen, before = fence, last
end
if ttl_ms == '0' then
  redis.call('SET', value, content)
else
  redis.call('SET', value, content, 'PX', ttl_ms)
end
write_guard(guard, value, seen, nonce, before, keep_ms)
return {1, seen}
