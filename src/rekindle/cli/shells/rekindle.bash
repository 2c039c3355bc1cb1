# Completes rekindle in bash, from 3.2 on. Made by `rekindle completion bash`.

_rekindle() {
    local line=${COMP_LINE:0:COMP_POINT} current=${COMP_WORDS[COMP_CWORD]}
    local kind value about tail=$2
    COMPREPLY=()
    # bash cuts words at = and : and wants what follows them only.
    case $current in = | :) current= tail= ;; esac

    local -a values=() described=()
    {
        IFS= read -r kind
        while IFS=$'\t' read -r value about; do
            values+=("$value")
            described+=("$value${about:+  ($about)}")
        done
    } < <(rekindle complete --line "$line" --tail="$tail" 2>/dev/null)

    case $kind in
        words)
            # Descriptions only where they are listed, and never where they would be inserted.
            case $COMP_TYPE in
                33 | 63 | 64) ((${#values[@]} > 1)) && values=("${described[@]}") ;;
            esac
            COMPREPLY=("${values[@]}")
            ((${#values[@]} == 1)) && [[ ${values[0]} == *= ]] && _rekindle_option nospace
            ;;
        files) _rekindle_option default || _rekindle_take -f "$current" ;;
        folders) _rekindle_option dirnames || _rekindle_take -d "$current" ;;
        command) _rekindle_take -c "$current" ;;
    esac
    return 0
}

_rekindle_option() {
    type compopt &>/dev/null && compopt -o "$1"
}

_rekindle_take() {
    local value
    while IFS= read -r value; do
        COMPREPLY+=("$value")
    done < <(compgen "$1" -- "$2")
}

complete -o nosort -F _rekindle rekindle 2>/dev/null || complete -F _rekindle rekindle
