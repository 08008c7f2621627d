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
	.irp saved, 0x80, 0x81, 0x82, 0x83, 0x85, 0x86, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f
	.byte \saved, 2
	.endr
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
