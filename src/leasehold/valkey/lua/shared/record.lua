-- The record at the lock's own key: version, kind, then for a writer token (32), channel (16), and
-- 'ticket until_ms since_ms holder'. Kinds: x, the queue is empty, and the key expires with the lease; w, the queue
-- is not empty, so the key outlives the lease and until_ms counts; g, as w, but granted from the queue and not claimed
-- yet; s, readers hold the lock. Version 1 was 'x' without channel, ticket and until_ms. An unknown version is an error:
-- an error is safer than a misread record.
local function read_record()
  local record = redis.call('GET', lock)
  if not record then return end
  local version = string.sub(record, 1, 1)
  if version == '1' then
    return 'x', string.sub(record, 3, 34), '00000000000000000 0 ' .. string.sub(record, 35)
  end
  if version ~= '2' then error('LEASEHOLD-VERSION ' .. version) end
  return string.sub(record, 2, 2), string.sub(record, 3, 34), string.sub(record, 35)
end

-- The parts behind the token: channel, ticket, until_ms, and the public part (since_ms and holder).
local function read_rest(rest)
  local ticket, until_ms, public = string.match(rest, '^(%d+) (%d+) (.*)$', 17)
  return string.sub(rest, 1, 16), ticket, tonumber(until_ms), public
end

-- True if a writer's lease has not ended.
local function has_writer(kind, rest)
  return kind == 'x' or kind and kind ~= 's' and select(3, read_rest(rest)) > now_ms
end
