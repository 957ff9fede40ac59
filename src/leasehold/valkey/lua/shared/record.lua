-- The record of an exclusive hold: version, kind, token (32), since_ms, holder.
-- Who it belongs to, and what everybody may see of it; nothing if there is none. A record of another
-- version is an error: better refused than misread.
local function read_record(lock)
  local record = redis.call('GET', lock)
  if not record then return end
  if string.sub(record, 1, 1) ~= '1' then
    error('LEASEHOLD-VERSION ' .. string.sub(record, 1, 1))
  end
  return string.sub(record, 3, 34), string.sub(record, 35)
end
