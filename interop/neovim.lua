-- Drives CodeCompanion in a headless Neovim: open a chat, resume the latest session if asked to,
-- submit one prompt, and write the chat buffer to a file.

local function read(name)
  return (assert(vim.env[name], name .. " is not set"))
end

local command = vim.json.decode(read("INTEROP_COMMAND"))
local timeout = tonumber(read("INTEROP_SECONDS")) * 1000

local function finish(text, code)
  vim.fn.writefile(vim.split(text, "\n"), read("INTEROP_OUTPUT"))
  -- The process is killed from outside, so that Neovim does not end the agent cleanly.
  if code ~= 0 then
    vim.cmd("cquit " .. code)
  end
end

local function wait(reason, condition)
  if not vim.wait(timeout, condition, 50) then
    error("no " .. reason .. " within " .. timeout / 1000 .. " s")
  end
end

local function run()
  for folder in vim.gsplit(read("INTEROP_PLUGINS"), ":") do
    vim.opt.runtimepath:append(folder)
  end
  require("codecompanion").setup({
    adapters = {
      acp = {
        rekindle = function()
          return require("codecompanion.adapters").extend("opencode", {
            name = "rekindle",
            commands = { default = command },
            defaults = { timeout = timeout },
          })
        end,
      },
    },
    interactions = { chat = { adapter = "rekindle" } },
    opts = { log_level = "DEBUG" },
  })
  local chat = require("codecompanion").chat({ auto_submit = false })
  wait("connection", function()
    return chat.acp_connection and chat.acp_connection:is_ready()
  end)
  if vim.env.INTEROP_RESUME then
    vim.ui.select = function(choices, _, on_choice)
      on_choice(choices[1], 1)
    end
    local resume = require("codecompanion.interactions.chat.slash_commands.builtin.resume")
    assert(resume.enabled(chat))
    resume.new({ Chat = chat, config = {}, context = {} }):execute()
    assert(chat.acp_connection.session_id, "no session was resumed")
  end
  local is_done = false
  vim.api.nvim_create_autocmd("User", {
    pattern = "CodeCompanionChatDone",
    callback = function()
      is_done = true
    end,
  })
  chat:add_buf_message({ role = "user", content = read("INTEROP_PROMPT") })
  chat:submit()
  wait("answer", function()
    return is_done
  end)
  return table.concat(vim.api.nvim_buf_get_lines(chat.bufnr, 0, -1, false), "\n")
end

vim.schedule(function()
  local ok, result = xpcall(run, debug.traceback)
  finish(result, ok and 0 or 1)
end)
