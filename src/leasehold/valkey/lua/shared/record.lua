-- The record at the lock's own key: version, kind, then for a writer token (32), channel (16), and
-- 'ticket until_ms since_ms holder'. Kinds: x, nobody waits, and the key lives as long as the lease; w, somebody
-- waits, so the key outlives the lease and until_ms counts; g, as w, but handed over and not claimed yet;
-- s, readers have it. Version 1 was 'x' without channel, ticket and until_ms. An unknown version is an error:
-- better refused than misread.
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

-- What stands behind the token: channel, ticket, until_ms, and what everybody may see (since_ms and holder).
local function read_rest(rest)
  local ticket, until_ms, public = string.match(rest, '^(%d+) (%d+) (.*)$', 17)
  return string.sub(rest, 1, 16), ticket, tonumber(until_ms), public
end

-- Whether a writer's lease is in force.
local function is_written(kind, rest)
  return kind == 'x' or kind and kind ~= 's' and select(3, read_rest(rest)) > now_ms
end
