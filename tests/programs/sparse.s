# A program that runs until it is killed. Its unwind tables describe functions far behind its code, from REACH on, for which the test makes the
# file longer: so many (MANY), all with one common part, which costs time (COSTS) for each.
.globl _start
.text
_start:
	.cfi_startproc
	.cfi_undefined rip
	call spin
	hlt
	.cfi_endproc
spin:
	.cfi_startproc
1:	jmp 1b
	.cfi_endproc

.section .eh_frame, "a", @progbits
common:
	.long 2f - 1f
1:	.long 0
	.byte 1
	.asciz "zR"
	.uleb128 1
	.sleb128 -8
	.uleb128 16
	.uleb128 1
	.byte 0x1b                      # pcrel, sdata4
	.byte 0x0c, 7, 8                # CFA = rsp + 8
	.byte 0x90, 1                   # return address at CFA - 8
	.rept COSTS
	.byte 0x0a, 0x0b                # remember the state, restore it
	.endr
	.balign 8
2:
.rept MANY
	.long 16
	.long . - common
	.long REACH
	.long 16
	.long 0
.endr
