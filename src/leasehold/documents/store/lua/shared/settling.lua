-- The hold in force and its text, after everything that time alone has changed: a mark that has run out is gone, and a
-- hold that has run out goes to whoever marked it, or nowhere.
local function settle()
  local hold, text = read_hold()
  if hold and hold.until_ms > now_ms then
    if hold.taking and marked_until(hold) <= now_ms then
      hold.taking, hold.step = nil, hold.step + 1
      text = cjson.encode(hold)
    end
    return hold, text
  end
  if hold and marked_until(hold) > now_ms then
    end_hold(hold, 'expired', hold.until_ms)
    return hand_over(hold, false)
  end
  local ended_ms = tonumber(redis.call('GET', held_until))
  if not ended_ms then return end
  local entry = redis.call('LINDEX', history, 0)
  end_hold(entry and cjson.decode(entry) or {}, 'expired', ended_ms)
  tell('document_lock_expired', nil, nil, describe())
end
