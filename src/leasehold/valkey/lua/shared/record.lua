-- The record of an exclusive hold: version, kind, token (32), fence, since_ms, holder.
-- What follows the token is for everybody's eyes.
local function write_record(lock, token, count, since_ms, holder, ttl_ms)
  if since_ms == '' then since_ms = string.format('%.0f', now_us() / 1000) end
  local record = '1x' .. token .. string.format('%.0f', count) .. ' ' .. since_ms .. ' ' .. holder
  redis.call('SET', lock, record, 'PX', ttl_ms)
end

-- Token and public part, or nothing. A newer version's record is an error: better refused than misread.
local function read_record(lock)
  local record = redis.call('GET', lock)
  if not record then return end
  if string.sub(record, 1, 1) ~= '1' then
    error('LEASEHOLD-VERSION ' .. string.sub(record, 1, 1))
  end
  return string.sub(record, 3, 34), string.sub(record, 35)
end
