#compdef rekindle
# Completes rekindle in zsh. Made by `rekindle completion zsh`.

_rekindle() {
    local -a lines described
    local kind line value
    local -a before=("${(@Q)words[2,CURRENT - 1]}")
    lines=("${(@f)$(rekindle complete -- "${before[@]}" "${(Q)PREFIX}" 2>/dev/null)}")
    kind=$lines[1]
    shift lines
    # Of --option=value, only the value is a path.
    [[ $kind == (files|folders) && $PREFIX == --*=* ]] && compset -P '*='
    case $kind in
        words)
            for line in "${lines[@]}"; do
                # To _describe, a backslash and the first colon mean something.
                line=${line//\\/\\\\}
                value=${line%%$'\t'*}
                described+=("${value//:/\\:}:${line#*$'\t'}")
            done
            # All of them fit already, also those that do not begin with what was typed.
            _describe -V 'rekindle' described -U
            ;;
        files) _files ;;
        folders) _files -/ ;;
        command) _command_names -e ;;
    esac
}

if [[ $funcstack[1] == _rekindle ]]; then
    _rekindle "$@"
else
    compdef _rekindle rekindle
fi
