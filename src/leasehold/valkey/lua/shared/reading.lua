-- The end of the last reader's lease; nothing if nobody reads.
local function last_reader_until()
  local last = redis.call('ZREVRANGE', readers, 0, 0, 'WITHSCORES')
  return last[2] and tonumber(last[2])
end

-- Lets a token read until then. Everything lives as long as the last reader does.
local function read_until(token, until_ms)
  redis.call('ZADD', readers, whole(until_ms), token)
  local all_ms = last_reader_until() - now_ms
  redis.call('PEXPIRE', readers, whole(all_ms))
  keep_people(all_ms)
  write_lock('2s', all_ms)
end

-- Forgets the readers whose leases have run out; says whether any are left.
local function end_readers()
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', readers, '-inf', whole(now_ms))) do
    redis.call('ZREM', readers, token)
    redis.call('HDEL', people, token)
  end
  return redis.call('EXISTS', readers) == 1
end
