-- Reads the value after registering the fence, unless a newer one has been seen.
-- KEYS: value, guard
-- ARGV: fence, mode, keep_ms
-- Returns: {1, seen, value} when read, the value false if there is none; {0, seen} when refused
local value, guard = KEYS[1], KEYS[2]
local fence, mode, keep_ms = ARGV[1], ARGV[2], ARGV[3]

-- Uses: guard
local seen, last, before = read_guard(guard)
if tonumber(fence) < tonumber(seen) then return {0, seen} end
local content = redis.call('GET', value)
if mode == 'exclusive' and tonumber(fence) > tonumber(seen) then
  seen, before = fence, last
end
write_guard(guard, value, seen, last, before, keep_ms)
return {1, seen, content}
