# Completes rekindle in fish. Made by `rekindle completion fish`.

function __rekindle_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    # As it is meant, also if it ends within quotes.
    for closing in '' "'" '"'
        set -l meant (string unescape -- "$current$closing")
        and set current $meant
        and break
    end
    set -l lines (rekindle complete -- $before[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case words
            printf '%s\n' $lines[2..-1]
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
        case command
            complete -C "$current"
    end
end

complete -c rekindle -f -k -a '(__rekindle_complete)'
